from mine import bfloat16

if x.dtype == bfloat16:
    x = x.to(torch.bfloat16)
