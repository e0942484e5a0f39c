"""Speed and memory, side by side with others: ``python -m benchmarks`` lists what can be run."""
