"""The ten steps of a pipeline."""
