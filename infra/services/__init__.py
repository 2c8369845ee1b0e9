"""The services of `bidaflow up`, their deployments and secrets, and checks of them."""
