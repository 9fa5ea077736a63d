SELECT perdure.give_back(:holder, :partitions)
