"""One check over several nodes, on the launcher that is there: torchrun, srun or a Kubernetes indexed Job."""
