"""A child of foreign code watches its parent with this module. The program text of such a child begins with this module's source."""


def end_with_parent(folder: str) -> None:
    """The first call of a child: when its standard input ends, the child removes its folder and ends.

    :func:`~cascader.frontends.children.run_child` holds the other end of that pipe. The system closes the pipe when the parent process is
    gone.
    """
    # The text of this module runs by itself, so it imports everything that it needs here.
    import os  # noqa: PLC0415
    import threading  # noqa: PLC0415

    def watch() -> None:
        while os.read(0, 1024):
            pass
        import shutil  # noqa: PLC0415  # a child that ends before its parent is spared it

        shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
