# Two teams.
fairway teams add vision --cpus 1 && fairway teams add speech --cpus 1
