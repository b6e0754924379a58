from .verdicts import Check as Check
from .verdicts import Verdict as Verdict
