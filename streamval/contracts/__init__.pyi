from .decorator import DEFAULT_RETRY_PARAMS as DEFAULT_RETRY_PARAMS
from .decorator import Contract as Contract
from .decorator import RetryParams as RetryParams
from .decorator import contract as contract
from .expression import Expression as Expression
from .expression import LLMDataModel as LLMDataModel
