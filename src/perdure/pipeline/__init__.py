"""Data pipelines: ten steps over tables, one after the other, each on the result of the one before.

They run in a worker. This package knows no nodes and no network: how jq is run, how a call is made and how work leaves
the event loop is handed in (`Means`).
"""

from perdure.pipeline.errors import PipelineError
from perdure.pipeline.steps import Means, check_steps, run_pipeline

__all__ = ["Means", "PipelineError", "check_steps", "run_pipeline"]
