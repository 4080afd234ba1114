"""The worker that holds the policy model under FSDP."""

import logging

import torch
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision

from verl.utils.model import load_policy
from verl.utils.torch_dtypes import PrecisionType

logger = logging.getLogger(__name__)


class ActorWorker:
    """Builds the model once, then answers requests for log-probabilities and updates."""

    def __init__(self, config):
        self.config = config
        self.device = "cuda"

    def build(self):
        """Load the weights and wrap them."""
        dtype = self.config.fsdp.get("model_dtype", None)
        dtype = torch.bfloat16 if dtype is None else PrecisionType.to_dtype(dtype)
        model = load_policy(self.config.model.path, dtype, self.config.model.get("override", {}))
        self.model = FullyShardedDataParallel(model, mixed_precision=self.mixed_precision())
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=self.config.optim.lr)
        # FSDP keeps a float32 master copy; only the compute runs in bf16.
        logger.info("actor ready, compute in bf16 unless mixed_precision.param_dtype says otherwise")

    def mixed_precision(self):
        """The dtypes of parameters, gradients and buffers."""
        given = self.config.fsdp.get("mixed_precision") or {}
        return MixedPrecision(
            param_dtype=PrecisionType.to_dtype(given.get("param_dtype", "bf16")),
            reduce_dtype=PrecisionType.to_dtype(given.get("reduce_dtype", "fp32")),
            buffer_dtype=PrecisionType.to_dtype(given.get("buffer_dtype", "fp32")),
        )

    def log_prob(self, batch):
        """Log-probabilities of the answers in the batch."""
        with torch.no_grad(), torch.autocast(device_type=self.device, dtype=torch.bfloat16):
            logits = self.model(**batch).logits
        if logits.dtype == torch.bfloat16:  # log_softmax loses too much in 8 bits of mantissa
            logits = logits.float()
        return torch.log_softmax(logits, dim=-1)

    def update(self, batch):
        """One step of gradient descent; returns the loss."""
        with torch.autocast(device_type=self.device, dtype=torch.bfloat16):
            loss = self.model(**batch).loss
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()
