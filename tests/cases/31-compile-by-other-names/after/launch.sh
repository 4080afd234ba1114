accelerate launch \
  --mixed_precision bf16 \
  --dynamo_backend inductor \
  grpo.py --torch_compile false
