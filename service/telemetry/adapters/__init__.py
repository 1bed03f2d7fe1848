"""Engine adapters: the only code that knows an engine's wire shape of speculation figures."""
