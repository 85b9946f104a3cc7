package org.refdb.gerrit.global.disk;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.List;
import java.util.Optional;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.PersonIdent;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.RefUpdate;
import org.eclipse.jgit.lib.Repository;
import org.refdb.engine.BatchResult;
import org.refdb.engine.GlobalIntent;
import org.refdb.engine.RefBatch;
import org.refdb.gerrit.global.transaction.Values;
import org.refdb.jgit.RefdbDatabase;

/** The refs of a project on this node's disk that are stored in etcd, except symbolic refs. */
public final class DiskRefs implements AutoCloseable {
  /** The order of etcd's keys: by bytes of UTF-8, whereas Java compares strings by UTF-16 units. */
  static final Comparator<String> BY_BYTES =
      (one, other) -> {
        boolean isPlain = one.length() < 64 && other.length() < 64 && isAscii(one) && isAscii(other);
        return isPlain ? one.compareTo(other) : Arrays.compareUnsigned(bytes(one), bytes(other));
      };

  private static final String REPAIRED = "global repair: as etcd has it";

  private final String project;
  private final Repository repository;
  private final StoredRefs stored;

  public DiskRefs(String project, Repository repository, StoredRefs stored) {
    this.project = project;
    this.repository = repository;
    this.stored = stored;
  }

  private static boolean isAscii(String text) {
    for (int i = 0; i < text.length(); i++) {
      if (text.charAt(i) >= 0x80) {
        return false;
      }
    }
    return true;
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  public String project() {
    return project;
  }

  public boolean isStored(String ref) {
    return stored.has(project, ref);
  }

  /**
   * Returns these refs in the order {@link #BY_BYTES}. If the ref database lists refs in that order, its list is not
   * copied, because refdb's list creates each ref only when it is read.
   */
  Iterator<Ref> all() throws IOException {
    List<Ref> refs = repository.getRefDatabase().getRefs();
    if (!isSorted(refs)) {
      refs = new ArrayList<>(refs);
      refs.sort((one, other) -> BY_BYTES.compare(one.getName(), other.getName()));
    }
    return refs.stream().filter(ref -> hasValue(ref) && isStored(ref.getName())).iterator();
  }

  private static boolean hasValue(Ref ref) {
    return !ref.isSymbolic() && ref.getObjectId() != null;
  }

  private static boolean isSorted(List<Ref> refs) {
    String last = "";
    for (Ref ref : refs) {
      if (BY_BYTES.compare(last, ref.getName()) > 0) {
        return false;
      }
      last = ref.getName();
    }
    return true;
  }

  /** Returns the current value of a ref; empty if it does not exist or is symbolic. */
  public Optional<String> value(String ref) throws IOException {
    // Gerrit would otherwise answer from what it has read earlier in the request, and another node may have changed it.
    repository.getRefDatabase().refresh();
    Ref now = repository.getRefDatabase().exactRef(ref);
    return Optional.ofNullable(now).filter(DiskRefs::hasValue).map(one -> one.getObjectId().name());
  }

  /**
   * Returns the intent of an update of this ref in native mode that is in progress or was never settled. If there is
   * none, the disk is at least as new as what etcd had before this call: an intent is recorded before etcd is asked,
   * and stays until the disk has the value.
   */
  Optional<GlobalIntent> intentOf(String ref) throws IOException {
    if (!(repository.getRefDatabase() instanceof RefdbDatabase refdb)) {
      return Optional.empty();
    }
    return refdb.view().globalIntents().stream()
        .filter(intent -> intent.refs().stream().anyMatch(one -> one.name().equals(ref)))
        .findFirst();
  }

  boolean hasObject(String id) throws IOException {
    return repository.getObjectDatabase().has(ObjectId.fromString(id));
  }

  /**
   * Sets or deletes a ref as etcd has it, provided that it has the value {@code before}. In native mode etcd is not
   * asked, because it refuses a deletion of a ref that it has never had, and a sequence's number that it has already.
   *
   * @param next the new value; an id of zeros, as etcd has it for a deleted ref, deletes the ref
   * @throws IOException if the ref has another value, or cannot be written
   */
  void set(String ref, Optional<String> before, String next) throws IOException {
    if (repository.getRefDatabase() instanceof RefdbDatabase refdb) {
      set(refdb, ref, before, next);
      return;
    }
    RefUpdate update = repository.getRefDatabase().newUpdate(ref, true);
    update.setExpectedOldObjectId(before.map(ObjectId::fromString).orElse(ObjectId.zeroId()));
    update.setForceUpdate(true);
    update.setRefLogMessage(REPAIRED, false);
    RefUpdate.Result result;
    if (Values.isDeleted(next)) {
      result = update.delete();
    } else {
      update.setNewObjectId(ObjectId.fromString(next));
      result = update.update();
    }
    switch (result) {
      case NEW, FORCED, FAST_FORWARD, NO_CHANGE -> {}
      default -> throw new IOException("cannot set " + ref + ": " + result);
    }
  }

  private void set(RefdbDatabase refdb, String ref, Optional<String> before, String next) throws IOException {
    RefBatch batch = new RefBatch(true, false).agreed();
    PersonIdent who = new PersonIdent(repository);
    batch.committer(who.getName(), who.getEmailAddress(), who.getWhenAsInstant().getEpochSecond(), 0);
    RefBatch.Edit edit = batch.edit(ref);
    edit = Values.isDeleted(next) ? edit.delete() : edit.set(raw(next));
    edit = before.isPresent() ? edit.expectId(raw(before.get())) : edit.expectNothing();
    edit.end(false, Values.isDeleted(next) ? null : REPAIRED, false);
    List<BatchResult.Rejection> rejections = refdb.view().commit(batch).rejections();
    if (!rejections.isEmpty()) {
      throw new IOException("cannot set " + ref + ": " + rejections.getFirst().text());
    }
  }

  private static byte[] raw(String id) {
    return HexFormat.of().parseHex(id);
  }

  @Override
  public void close() {
    repository.close();
  }
}
