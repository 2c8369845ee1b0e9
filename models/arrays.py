"""Types of NumPy arrays."""

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.floating]
IntArray = npt.NDArray[np.integer]
BoolArray = npt.NDArray[np.bool_]
Float32Array = npt.NDArray[np.float32]
