module fairway.dev/manywatches

go 1.22
