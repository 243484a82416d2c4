"""Types of parameters that flows share, by which the form on the page of a Prefect server knows what each may be."""

from typing import Annotated, Literal

from pydantic import Field

Rate = Annotated[float, Field(ge=0, le=1)]
Dollars = Annotated[float, Field(ge=0)]
Feedback = Literal["llm"]
Trigger = Literal["manual", "demo", "nightly", "checkpoint", "sweep"]
