def test_smoke(kubectl):
    print(kubectl("get pods,jobs,cm,cq"))
    print(kubectl.table("get ns"))
    assert 0
