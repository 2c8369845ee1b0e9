"""Finished trainings, their answers, and the tables that compare them."""
