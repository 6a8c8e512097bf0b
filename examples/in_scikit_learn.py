"""Inside scikit-learn: a grid search, and the same features written out for any linear model."""

from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline

import streamlearn as sl


def main():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X, X_test, y, y_test = train_test_split(X, y, random_state=0)

    search = GridSearchCV(sl.AdditiveClassifier(n_bases=8), {"C": [0.1, 1.0]}, cv=3).fit(X, y)
    print(f"best C {search.best_params_['C']}, accuracy {search.score(X_test, y_test):.3f}")

    linear = LogisticRegression(C=search.best_params_["C"], solver="liblinear")
    explicit = make_pipeline(sl.SplineEmbedding(n_bases=8), linear).fit(X, y)
    print(f"explicit features, LIBLINEAR: accuracy {explicit.score(X_test, y_test):.3f}")


if __name__ == "__main__":
    main()
