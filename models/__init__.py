"""The BiDAF model family. It uses only torch and numpy: no files, network or orchestration."""
