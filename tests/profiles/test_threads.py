"""OpenMP settings of an engine."""

from service.profiles.threads import SPIN_COUNT, openmp_env


def test_all_cores_unless_told():
    assert openmp_env(None) == {"GOMP_SPINCOUNT": str(SPIN_COUNT), "OMP_PROC_BIND": "false"}
    assert openmp_env(3)["OMP_NUM_THREADS"] == "3"


def test_threads_neither_sleep_at_once_nor_spin_for_long():
    assert 1000 <= SPIN_COUNT <= 5000
