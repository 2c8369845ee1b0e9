"""Trainings on machines with only torch, numpy, pyarrow and safetensors."""
