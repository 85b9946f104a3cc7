package org.refdb.gerrit.global.disk;

import java.io.IOException;
import java.util.List;
import org.refdb.gerrit.global.etcd.GlobalRefException;

/** Opens the refs of projects on this node's disk. */
public interface Disks {
  /** Names of all projects whose refs are stored in etcd. */
  List<String> all();

  /**
   * Opens the refs of one project.
   *
   * @throws IOException if the repository cannot be opened
   * @throws GlobalRefException if the settings exclude the project from the global ref database
   */
  DiskRefs open(String project) throws IOException, GlobalRefException;
}
