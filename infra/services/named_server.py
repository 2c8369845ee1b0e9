"""A server that a variable names, and what to do if it does not respond or refuses access."""

from dataclasses import dataclass

import httpx

from infra.errors import UserError
from infra.masking import mask_secrets

SECONDS = 10.0  # a run should not fail if the server is busy


@dataclass(frozen=True)
class NamedServer:
    """A server, the URL of its version, and the variables with its address and its login."""

    name: str
    address: str
    version_url: str
    login: tuple[str, str] | None
    variable: str
    credentials: str  # what to set to log in

    @property
    def shown(self) -> str:
        """The address without secrets."""
        return mask_secrets(self.address)

    def answer(self) -> httpx.Response:
        """The answer at the URL of its version, which may be an error of the server.

        Raises:
            UserError: it does not respond, or refuses access.
        """
        try:
            response = httpx.get(self.version_url, auth=self.login, timeout=SECONDS)
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise UserError(
                f"No {self.name} server responds at {self.shown} ({error}). Start it, or correct "
                f"or unset {self.variable}."
            ) from error
        if response.status_code in (401, 403):
            raise UserError(
                f"The {self.name} server at {self.shown} refuses access. Set {self.credentials}."
            )
        return response
