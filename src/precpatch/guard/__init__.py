"""Run a command and stop or record at the first operation that the target cannot do.

``run.py`` starts the command with ``inject/`` first on its PYTHONPATH; from there every Python process below it guards
itself and keeps a journal (``inject/precpatch_guard``). ``record.py`` puts the journals together, ``findings.py`` ties
them to a scan, ``report.py`` shows them. ``order.py`` says what trips on which target.

Seen: every operator that reaches PyTorch's dispatcher, in every thread and in forked, spawned and executed children,
in backward passes too (on CUDA these have no Python frame, so no site); Triton launches by ``JITFunction.run``; calls
of what was handed to ``torch.compile``, which run eagerly, whatever the backend.

Not seen:
    - C++ and CUDA extensions that are not registered with ``torch.library``; numpy.
    - Operators inside a higher-order operator (the score function of ``flex_attention``): only its inputs and outputs.
    - Kernels that Inductor would generate, since compiled functions run eagerly; ``torch._dynamo.optimize`` called
      directly, and AOTInductor.
    - Threads that Python did not start, before they first call a module.
    - Python started with ``-I``, ``-E`` or ``-S``, or with an environment or PYTHONPATH that drops the guard's; other
      hosts; a Ray cluster that was running before. The report says how many processes were watched.
    - Whether the target's kernels exist: with ``--pretend`` Triton compiles for the target, and the GPU that is there
      may refuse the result.

The counts of a process that a signal killed can lack its last half second; its first trips are there.

Measured with ``benchmarks/guard.py`` (CPU, one thread, torch 2.13): an operator takes 4 microseconds more. A float32
step of a transformer takes 3 to 5 times as long at width 16, 1.7 to 2.5 times at width 128, and 1.0 to 1.2 times at
width 512. A process that only imports torch takes up to a quarter of a second more.
"""
