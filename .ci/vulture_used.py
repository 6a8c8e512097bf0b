"""What vulture would call dead, and who uses it: a name is added once its callers were read."""

# The public surface, which users call: the examples and benches need not.
_.AdditiveClassifierCV
_.AdditiveRegressorCV
_.FourierEmbedding
_.JensenShannonBoostClassifierCV
_.ProjectionPursuitRegressorCV
_.SVMMixtureClassifierCV
_.ShareBoostClassifierCV
_.SuperSparseClassifierCV
_.WaterfallDisplay
_.additive_kernel
_.at_risk
_.ordinal_steps
_.ordinal_probabilities
_.survival_curves
_.agreement
_.compare
_.distances_
_.check_different_content
_.check_loss
_.check_store
_.best_parameters
_.best_score_
_.edit
_.term_importance_errors_
_.explain
_.line_smoothing_
_.predict_interval
_.smoothing_
_.summary_table
_.gamma_
_.gate_probabilities
_.get_support
_.plane
_.predict_log_proba
_.rank_error
_.register_store
_.check_fold
_.rms
_.solver_table
_.tau_
_.to_dict
_.to_onnx
_.to_sql
_.to_parquet
_.to_zarr
_.ax_
_.axes_

# numba reads these of a dispatcher and of a cache.
_._cache
_._cache_file

# Python, click, scikit-learn, fsspec and http.server call these by name.
_.do_POST
_.log_message
_.__dir__
_.__getattr__
_.__init_subclass__
_.allow_nan
_.param
_.readable
_.required
_.seekable
_.writable

# A cache key; two of the command's exit codes, listed whole; taken back out of ``__dict__``.
_.n_modules
_.DONE
_.USAGE
_._outcome

# Keys of states, which are read as strings.
_.column_of_mean
_.estimates
_.forgotten
_.importances
_.n_due
_.n_sweeps
_.n_waiting
_.pair_density
