"""Edge collapse by quadric error as a sequential Warp kernel. Used by `smr.mesh.simplify`; not public.

A launch with one item runs as plain serial code, so this is the place for linked lists and a queue.

- `state`: the mesh under collapse. Faces around a vertex are a linked list of corners, which the collapse of two
  vertices joins in constant time.
- `quadric`: the cost of a place and the best place.
- `legality`: whether a collapse keeps topology and turns no face over.
- `bound`: whether a collapse stays within a distance of the original surface.
- `parts`: the arrays between two collapses, and parts of the mesh made ready for the kernels.
- `regions`: parts of a large mesh collapsed in parallel, before one queue for all does the rest.
- `kernels`: the queue and the loop. The queue has 256 buckets for each power of two of the cost, which is a heap in all
  but name: the order differs from a true heap's by 0.4 % of the cost at most, and push and pop take constant time.
  An entry is out of date when its vertices' versions moved on.
"""
