SELECT weft.give_back(:holder, :partitions)
