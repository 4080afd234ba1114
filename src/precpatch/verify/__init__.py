"""Prove that a patched checkout is fit for the target, without a GPU.

Four steps: ``parse.py``, every file that a scan looks at parses; ``scan.py``, nothing is left to rewrite;
``imports.py``, the entry points and what they reach import in the user's environment; ``configs.py``, the configs of
the entry points compose, their dataclasses take the patched values, and no value in them is one that the target gets
wrong without an error (``hazards.py``). ``run.py`` calls them, ``report.py`` shows what they found.

The last two run the code that the modules of the checkout run when they are imported; of the other commands only
``guard`` runs any.
``modules.py`` reads from the syntax alone what there is to import; ``processes.py`` lets ``inject/precpatch_verify``
do it in processes of the user's interpreter, under the guard's import hooks; ``child.py`` watches and ends those;
``verdicts.py`` says what a failure means.

A module can do anything, also lie about itself or start a session of its own, whose processes stay. What it does to
the process that imports it is undone where that is cheap; what still fails after others is tried by itself.

Not seen: modules that are only named by a text put together at run time; code in functions, which is not called;
configs that no ``@hydra.main`` names; what launch scripts set on top of a config, which is for the scan; what happens
at import on a machine with a GPU only, but for imports of flash_attn, which are tried a second time with
``torch.cuda.is_available()`` saying yes.
"""
