"""Blocks of the docs and examples of the help texts that need a cluster work as they are written."""

from pathlib import Path

import pytest
from tools.cluster.lifecycle import RunningCluster

from pages.blocks import pages_with
from pages.examples import run_examples
from pages.running import name_of, run_page
from pages.shell import ROOT, Shell


def shell_on(cluster: RunningCluster, directory: Path, helm: str = "") -> Shell:
    shell = Shell(directory, KUBECONFIG=str(cluster.kubeconfig))
    if helm:
        (directory / "bin" / "helm").symlink_to(helm)
    return shell


@pytest.mark.usefixtures("tree_image")
@pytest.mark.parametrize("page", pages_with(ROOT, "cluster"), ids=name_of)
def test_the_commands_of_a_page_work_on_a_cluster(
    page: Path, cluster: RunningCluster, helm_binary: str, tmp_path: Path
) -> None:
    with shell_on(cluster, tmp_path, helm_binary) as shell:
        run_page(page, shell, "cluster")


@pytest.mark.usefixtures("tree_image")
def test_the_examples_of_commands_for_clusters_work(cluster: RunningCluster, tmp_path: Path) -> None:
    with shell_on(cluster, tmp_path) as shell:
        assert shell.run(". $SCENES/contexts.sh").exit_code == 0
        run_examples(shell, "cluster")


@pytest.mark.parametrize("page", pages_with(ROOT, "kuberay"), ids=name_of)
def test_the_commands_of_a_page_work_with_kuberay(page: Path, kuberay: RunningCluster, tmp_path: Path) -> None:
    with shell_on(kuberay, tmp_path) as shell:
        run_page(page, shell, "kuberay")


@pytest.mark.parametrize("page", pages_with(ROOT, "yunikorn"), ids=name_of)
def test_the_commands_of_a_page_work_with_yunikorn(page: Path, yunikorn: RunningCluster, tmp_path: Path) -> None:
    with shell_on(yunikorn, tmp_path) as shell:
        run_page(page, shell, "yunikorn")
