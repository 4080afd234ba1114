"""Run a command and stop or record at the first operation that the target cannot do.

``run.py`` starts the command with ``inject/`` first on its PYTHONPATH; from there every Python process below it guards
itself and keeps a journal (``inject/precpatch_guard``). ``record.py`` puts the journals together, ``findings.py`` ties
them to a scan, ``report.py`` shows them. ``order.py`` says what trips on which target.

Seen: every operator that reaches PyTorch's dispatcher, in every thread and in forked, spawned and executed children,
in backward passes too (on CUDA these have no Python frame, so no site), and those that inference mode leaves whole;
Triton launches by ``JITFunction.run``; calls of what was handed to ``torch.compile`` or ``torch._dynamo.optimize``,
which run eagerly, whatever the backend; ``torch.autocast`` for a GPU that is not there, which PyTorch switches off.

No trip: asking about a dtype; a bf16 tensor that is viewed, copied or cast to another dtype (counted as a load).

Not seen:
    - C++ and CUDA extensions that are not registered with ``torch.library``; numpy.
    - Operators inside a higher-order operator (the score function of ``flex_attention``): only its inputs and outputs.
    - Kernels that Inductor would generate, since compiled functions run eagerly; AOTInductor; the run in which
      ``torch.jit.trace`` traces.
    - Threads that Python did not start, before they first call a module; those of Ray's actors are seen.
    - Inside a tensor subclass without ``__tensor_flatten__``: only its own operators.
    - Python started with ``-I``, ``-E`` or ``-S``, or with an environment or PYTHONPATH that drops the guard's; other
      hosts; a Ray cluster that was running before; what a daemon does after the command has ended. The report says how
      many processes were watched.
    - Whether the target's kernels exist: with ``--pretend`` Triton compiles for the target, and the GPU that is there
      may refuse the result.

Counts are kept in mapped memory, so that they are whole whatever ends a process. A process tells 4096 events apart;
what is new after that is counted in one row.

Measured with ``benchmarks/guard.py`` (CPU, one thread, torch 2.13): an operator takes 4 microseconds more. A float32
step of a transformer takes 3 to 5 times as long at width 16, 1.7 to 2.5 times at width 128, and 1.0 to 1.2 times at
width 512. A process that only imports torch takes up to a quarter of a second more.
"""
