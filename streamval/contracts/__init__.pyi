from .decorator import contract as contract
from .expression import Expression as Expression
from .expression import LLMDataModel as LLMDataModel
from .terms import DEFAULT_RETRY_PARAMS as DEFAULT_RETRY_PARAMS
from .terms import Contract as Contract
from .terms import RetryParams as RetryParams
