package org.refdb.gerrit.global.transaction;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.google.common.flogger.FluentLogger;
import com.google.gerrit.entities.RefNames;
import java.io.IOException;
import java.time.Instant;
import java.util.HexFormat;
import java.util.Optional;
import org.eclipse.jgit.lib.Constants;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.ObjectInserter;
import org.eclipse.jgit.lib.Repository;
import org.refdb.engine.RefBatch;
import org.refdb.engine.EngineView;

/**
 * Gerrit's sequences, whose objects contain a number as text. If nodes have a disk each, one that lags behind need not
 * fetch the object that another node wrote, because it finds the number by trying which number has the object's id. The
 * update that revealed the lag still fails, and Gerrit retries it from the number it then reads.
 */
public final class Sequences {
  private static final FluentLogger log = FluentLogger.forEnclosingClass();

  /** How many numbers after this disk's are tried. Hashing a million numbers takes less than a second. */
  private static final int AHEAD_MAX = 1_000_000;

  private static final int TEXT_MAX = 20;

  private Sequences() {}

  public static boolean is(String ref) {
    return ref.startsWith(RefNames.REFS_SEQUENCES);
  }

  /**
   * Sets a sequence that exists on this disk to the value in etcd. If that fails, or the number is not found, the value
   * is left to be fetched. Does nothing for other refs.
   */
  public static void catchUp(Repository repository, EngineView view, EtcdArbiter.Ahead ahead) {
    if (!is(ahead.ref()) || ahead.here() == null) {
      return;
    }
    try {
      Optional<byte[]> number =
          number(repository, ObjectId.fromString(ahead.here()), ObjectId.fromString(ahead.there()));
      if (number.isPresent()) {
        try (ObjectInserter inserter = repository.newObjectInserter()) {
          inserter.insert(Constants.OBJ_BLOB, number.get());
          inserter.flush();
        }
        set(view, ahead);
      }
    } catch (IOException | RuntimeException e) {
      log.atWarning().withCause(e).log("%s stays behind etcd until it is fetched", ahead.ref());
    }
  }

  private static Optional<byte[]> number(Repository repository, ObjectId here, ObjectId there) throws IOException {
    long before;
    try {
      before =
          Long.parseLong(
              new String(repository.open(here, Constants.OBJ_BLOB).getCachedBytes(TEXT_MAX), UTF_8)
                  .strip());
    } catch (NumberFormatException e) {
      return Optional.empty();
    }
    try (ObjectInserter.Formatter formatter = new ObjectInserter.Formatter()) {
      for (long number = before + 1; number <= before + AHEAD_MAX; number++) {
        byte[] text = Long.toString(number).getBytes(UTF_8);
        if (formatter.idFor(Constants.OBJ_BLOB, text).equals(there)) {
          return Optional.of(text);
        }
      }
    }
    return Optional.empty();
  }

  /**
   * Sets the ref; if it has been updated since, here or in etcd, the edit is rejected or the disk lags behind again.
   */
  private static void set(EngineView view, EtcdArbiter.Ahead ahead) throws IOException {
    RefBatch batch = new RefBatch(true, false).agreed();
    batch.committer("refdb", "refdb@localhost", Instant.now().getEpochSecond(), 0);
    batch
        .edit(ahead.ref())
        .set(HexFormat.of().parseHex(ahead.there()))
        .expectId(HexFormat.of().parseHex(ahead.here()))
        .end(false, "global: as etcd has it", false);
    view.commit(batch);
  }
}
