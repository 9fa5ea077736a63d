SELECT perdure.leave(:holder)
