package org.refdb.jgit;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import org.eclipse.jgit.lib.Constants;

/**
 * The reflog of a ref that is being renamed, where refs are files. It is moved to the new name before the refs change,
 * since the engine removes a deleted ref's log. It is moved back unless the change was made.
 */
final class MovedLog implements AutoCloseable {
  private final Path from;
  private final Path to;
  private boolean isMoved;

  private MovedLog(Path from, Path to) {
    this.from = from;
    this.to = to;
  }

  static MovedLog move(RefdbDatabase database, String from, String to) throws IOException {
    Path logs = database.repository().getDirectory().toPath().resolve(Constants.LOGS);
    MovedLog log = new MovedLog(logs.resolve(from), logs.resolve(to));
    if (!database.view().isReftable() && Files.isRegularFile(log.from)) {
      rename(logs, log.from, log.to);
      log.isMoved = true;
    }
    return log;
  }

  void keep() {
    isMoved = false;
  }

  @Override
  public void close() throws IOException {
    if (isMoved && Files.exists(to)) {
      rename(to.getParent(), to, from);
    }
  }

  /** By way of a third name: the new one may lie below the old one. */
  private static void rename(Path folder, Path from, Path to) throws IOException {
    Path between = Files.createTempFile(folder, "renamed-", null);
    Files.move(from, between, StandardCopyOption.REPLACE_EXISTING);
    try {
      Files.createDirectories(to.getParent());
      Files.move(between, to);
    } catch (IOException e) {
      Files.move(between, from);
      throw e;
    }
  }
}
