"""What forked processes have before they begin: importing this loads it."""

import streamlearn

streamlearn.warm()
