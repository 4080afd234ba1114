"""The vocabulary: what the words of precisions, attention, kernels, engines and devices mean, once for every reader.

The words themselves are data (the top-level folder ``vocabulary/``, shipped inside the wheel). Readers know grammar
only and ask here what a word means; the words that loaded rules bring join the vocabulary of a run.
"""

from precpatch.vocabulary.load import builtin_vocabulary
from precpatch.vocabulary.words import Device, Form, Package, Program, Setting, Vocabulary

__all__ = ["Device", "Form", "Package", "Program", "Setting", "Vocabulary", "builtin_vocabulary"]
