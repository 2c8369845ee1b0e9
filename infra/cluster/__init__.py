"""The Ray cluster: joining it, its allotment to trainings, and work on all of its nodes."""
