"""`compact_context`: a model has older turns summarised when its work comes to a joint."""
