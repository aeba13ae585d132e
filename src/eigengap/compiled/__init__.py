"""The few kernels that are worth compiling, each behind one function that also has a NumPy twin."""

from eigengap.compiled.posterior import factorise

__all__ = ["factorise"]
