SELECT weft.leave(:holder)
