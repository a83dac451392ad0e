"""Questions about access over HTTP: who am I, may I, what may I."""

from datetime import datetime

from fairway.apis.machinery.kind import Manifest
from fairway.errors import BadRequest, NotFound
from fairway.server import bodies
from fairway.server.access import reviews
from fairway.server.access.users import Users
from fairway.server.requests import Request
from fairway.server.routes import ResourcePath


async def answer(request: Request, where: ResourcePath, users: Users, now: datetime) -> Manifest:
    """The review in the body, with its answer."""
    body = bodies.manifest(request, await request.body())
    if not isinstance(body, dict):
        raise BadRequest("the body must be a review object")
    match where.group, where.version, where.resource:
        case "authentication.k8s.io", "v1", "selfsubjectreviews":
            return reviews.self_subject_review(body, request.user, now)
        case "authorization.k8s.io", "v1", "selfsubjectaccessreviews":
            return reviews.self_subject_access_review(body, request.user)
        case "authorization.k8s.io", "v1", "selfsubjectrulesreviews":
            return reviews.self_subject_rules_review(body, request.user)
        case "authorization.k8s.io", "v1", "subjectaccessreviews":
            return reviews.subject_access_review(body, users)
    raise NotFound("the server could not find the requested resource")
