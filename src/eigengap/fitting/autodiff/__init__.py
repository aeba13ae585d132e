"""Fits whose gradients JAX derives. Only files in this folder import it, in double precision."""
