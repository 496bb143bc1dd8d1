"""`cudagraphs`: records the CUDA work of a graph once and replays it."""
