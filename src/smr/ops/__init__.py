"""Operations on torch tensors: batched, differentiable where it means something, on the tensors' own device.

They need torch (`pip install 'smr3d[torch]'`). The main job does not: it works on NumPy arrays with the same kernels.
"""
