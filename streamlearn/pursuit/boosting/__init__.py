"""Jensen-Shannon boosting: histograms of sparse projections."""
