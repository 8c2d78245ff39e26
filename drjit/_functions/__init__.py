"""The functions of the public interface that compute."""
