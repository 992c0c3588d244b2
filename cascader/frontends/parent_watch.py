"""The watch over its parent that a child of foreign code keeps; children that run a text have this module's as its beginning."""


def end_with_parent(folder: str) -> None:
    """To be called first in a child: once its standard input ends, its folder is removed and it ends.

    :func:`~cascader.frontends.children.run_child` holds the other end of that pipe, which the system closes when its process is gone.
    """
    # The text of this module is run by itself, so that all it needs is imported here.
    import os  # noqa: PLC0415
    import threading  # noqa: PLC0415

    def watch() -> None:
        while os.read(0, 1024):
            pass
        import shutil  # noqa: PLC0415  # a child that ends before its parent is spared it

        shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
