"""Graph convolution (Kipf and Welling 2017)."""

from __future__ import annotations

import math

import torch
from torch import nn


def sparse_bmm(sparse_matrix: torch.Tensor, dense_matrix_batch: torch.Tensor) -> torch.Tensor:
    """One sparse matrix (M, N) times a batch of dense ones (B, N, C): (B, M, C)."""
    batch, rows, channels = dense_matrix_batch.shape
    columns = dense_matrix_batch.transpose(0, 1).reshape(rows, batch * channels)
    product = torch.sparse.mm(sparse_matrix, columns)
    return product.reshape(-1, batch, channels).transpose(0, 1)


def normalize_adj(adj: torch.Tensor) -> torch.Tensor:
    """A matrix (N, N), sparse or dense, whose rows add up to one; a row of zeros stays as it is."""
    if not adj.is_sparse:
        total = adj.sum(dim=-1, keepdim=True)
        return adj / torch.where(total == 0, 1, total)
    adj = adj.coalesce()
    indices, values = adj.indices(), adj.values()
    total = torch.sparse.mm(adj, torch.ones(adj.shape[1], 1, dtype=adj.dtype, device=adj.device)).squeeze(-1)
    total = torch.where(total == 0, 1, total)
    return torch.sparse_coo_tensor(
        indices, values / total[indices[0]], adj.shape, is_coalesced=True, check_invariants=False
    )


class GraphConv(nn.Module):
    """A layer that averages the neighbours' features after a linear map, and adds another map of the node's own.

    Args:
        input_dim: Features in.
        output_dim: Features out.
        self_layer: Add the node's own features through a linear map of their own.
        bias: Both maps have a bias.
    """

    def __init__(self, input_dim: int, output_dim: int, self_layer: bool = True, bias: bool = True) -> None:
        super().__init__()
        self.self_layer = self_layer
        self.linear = nn.Linear(input_dim, output_dim, bias=bias)
        self.linear_self = nn.Linear(input_dim, output_dim, bias=bias) if self_layer else None
        self.initialize()

    def initialize(self) -> None:
        """Draw new weights, uniform within one over the root of the number of features in; biases are zero."""
        for layer in (self.linear, self.linear_self):
            if layer is None:
                continue
            bound = 1 / math.sqrt(layer.in_features)
            nn.init.uniform_(layer.weight, -bound, bound)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)

    def forward(self, node_feat: torch.Tensor, adj: torch.Tensor, normalize_adj: bool = True) -> torch.Tensor:
        """Features (B, N, output_dim).

        Args:
            node_feat: Features (B, N, input_dim) or (N, input_dim).
            adj: Adjacency (N, N), sparse or dense.
            normalize_adj: Divide its rows by their sums first.
        """
        adj = _normalize(adj) if normalize_adj else adj
        batched = node_feat.unsqueeze(0) if node_feat.dim() == 2 else node_feat
        mapped = self.linear(batched)
        result = sparse_bmm(adj, mapped) if adj.is_sparse else adj @ mapped
        if self.linear_self is not None:
            result = result + self.linear_self(batched)
        return result.squeeze(0) if node_feat.dim() == 2 else result


_normalize = normalize_adj  # the layer's argument has the same name
