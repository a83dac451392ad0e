"""Who is asking, what they may do, and the record of what they did.

`users` keeps people and their tokens, `roles` says what a role allows, `authentication` and `authorization` turn that
into a yes or an error for one request, `reviews` answers questions about it over the API, `audit` writes down every
change. None of it knows the store or how requests arrive.
"""
