package org.refdb.gerrit.global.disk;

import io.etcd.jetcd.KeyValue;
import io.etcd.jetcd.kv.GetResponse;
import java.io.IOException;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.function.Consumer;
import org.refdb.engine.GlobalIntent;
import org.refdb.gerrit.global.etcd.Deadline;
import org.refdb.gerrit.global.etcd.Etcd;
import org.refdb.gerrit.global.etcd.Generation;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.etcd.Keys;
import org.refdb.gerrit.global.transaction.GlobalRefs;
import org.refdb.gerrit.global.transaction.Stages;
import org.refdb.gerrit.global.transaction.Stages.Effective;
import org.refdb.gerrit.global.transaction.Values;

/**
 * Compares the refs on this node's disk with those in etcd, in both directions and without blocking anyone. A ref that
 * differs is read again until both values are of one moment and the ref is not locked; after {@code
 * refdb.global.timeout} it is reported as {@link Kind#UNDER_UPDATE}.
 */
public final class Compare {
  /** How many differences are reported unless the caller sets another limit. */
  public static final long DIFFERENCES_DEFAULT = 1000;

  /** Kind of a difference. */
  public enum Kind {
    /** etcd has no value, or that of a deleted ref. */
    ONLY_ON_DISK,
    /** The ref does not exist on disk, or is symbolic there. */
    ONLY_IN_ETCD,
    /** Both have a value, but not the same. */
    OTHER,
    /** The ref was locked or updated each time it was read. */
    UNDER_UPDATE
  }

  /**
   * A ref that differs.
   *
   * @param note further information, or an empty string
   */
  public record Difference(String ref, Kind kind, Optional<String> disk, Optional<String> etcd, String note) {
    public String text() {
      return ref
          + ": here "
          + disk.orElse("nothing")
          + ", in etcd "
          + etcd.map(Compare::readable).orElse("nothing")
          + note;
    }
  }

  /**
   * Result of a comparison.
   *
   * @param refs number of refs compared, including the one at which an incomplete comparison ended
   * @param neverSeen number of refs on disk that etcd does not know yet and whose first update stores them; 0 if the
   *     project was imported, because such refs are differences then
   * @param imported whether the project was imported, so that a ref without a value in etcd does not exist
   * @param complete whether all refs were compared
   */
  public record Summary(long refs, long neverSeen, long different, boolean imported, boolean complete) {
    public boolean isClean() {
      return different == 0 && complete;
    }
  }

  /** The state of a ref in etcd. */
  private record Seen(
      Optional<Generation> generation,
      Optional<String> value,
      long revision,
      Optional<String> holder) {}

  private final GlobalRefs refs;
  private final DiskRefs disk;

  /** Ids of intents for which a ref was waited in vain. Other refs of theirs do not wait again. */
  private final Set<String> unsettled = new HashSet<>();

  public Compare(GlobalRefs refs, DiskRefs disk) {
    this.refs = refs;
    this.disk = disk;
  }

  /**
   * Reports the first {@code most} refs that differ. If one more differs, the comparison ends there, incomplete.
   */
  public Summary run(long most, Consumer<Difference> told) throws IOException, GlobalRefException {
    Generation generation = generation();
    Pairs pairs = new Pairs(disk, new EtcdRefs(refs, generation));
    long looked = 0;
    long neverSeen = 0;
    long different = 0;
    for (Optional<Pairs.Pair> pair = pairs.next(); pair.isPresent(); pair = pairs.next()) {
      looked++;
      Pairs.Pair one = pair.get();
      if (agree(one.disk(), one.etcd())) {
        continue;
      }
      if (one.etcd().isEmpty() && !generation.imported()) {
        neverSeen++;
        continue;
      }
      Optional<Difference> found = look(one.ref(), generation);
      if (found.isEmpty()) {
        continue;
      }
      if (different == most) {
        return new Summary(looked, neverSeen, different, generation.imported(), false);
      }
      different++;
      told.accept(found.get());
    }
    return new Summary(looked, neverSeen, different, generation.imported(), true);
  }

  /**
   * Returns the generation of the project.
   *
   * @throws GlobalRefException if etcd does not know the project, or the generation cannot be read
   */
  public Generation generation() throws GlobalRefException {
    return refs.projects()
        .look(disk.project(), refs.deadline())
        .orElseThrow(
            () ->
                new GlobalRefException(
                    "etcd has nothing of project "
                        + disk.project()
                        + ": it was neither updated nor imported",
                    null));
  }

  /**
   * Reads a ref until its two values are of one moment and nobody updates or locks it, and returns the difference that
   * remains; empty if none does, or if etcd does not know the ref of a project that is not imported. If the deadline
   * passes before that, the difference is of kind {@link Kind#UNDER_UPDATE}.
   */
  public Optional<Difference> look(String ref, Generation generation) throws IOException, GlobalRefException {
    Deadline deadline = refs.deadline();
    while (true) {
      Seen before = see(ref, generation, deadline);
      // Looked for between the two values: without an intent, the disk is as new as this value of etcd.
      Optional<GlobalIntent> intent = disk.intentOf(ref);
      Optional<String> here = disk.value(ref);
      if (agree(here, before.value()) || before.value().isEmpty() && !before.generation().get().imported()) {
        return Optional.empty();
      }
      boolean isFree = before.holder().isEmpty() && intent.isEmpty();
      if (isFree && before.equals(see(ref, generation, deadline))) {
        return Optional.of(difference(ref, here, before.value()));
      }
      boolean isOld = intent.isPresent() && unsettled.contains(intent.get().id());
      if (isOld || !deadline.pause()) {
        intent.ifPresent(one -> unsettled.add(one.id()));
        String note =
            before.holder().map(holder -> "; locked by " + holder)
                .or(() -> intent.map(one -> "; an update of it is not settled"))
                .orElse("; it moves too often");
        return Optional.of(new Difference(ref, Kind.UNDER_UPDATE, here, before.value(), note));
      }
    }
  }

  private Difference difference(String ref, Optional<String> here, Optional<String> there) throws IOException {
    Optional<String> id = Values.live(there);
    if (id.isEmpty()) {
      return new Difference(ref, Kind.ONLY_ON_DISK, here, there, "");
    }
    String note = disk.hasObject(id.get()) ? "" : "; that object is not here";
    return new Difference(ref, here.isEmpty() ? Kind.ONLY_IN_ETCD : Kind.OTHER, here, there, note);
  }

  private Seen see(String ref, Generation generation, Deadline deadline) throws GlobalRefException {
    Keys keys = refs.keys();
    List<GetResponse> all =
        refs.etcd()
            .commitAgain(
                List.of(),
                List.of(
                    Etcd.get(keys.project(disk.project())),
                    Etcd.get(keys.value(generation, ref)),
                    Etcd.get(keys.lock(generation, ref))),
                List.of(),
                refs.deadline())
            .getGetResponses();
    Optional<Generation> now = refs.projects().remember(disk.project(), Etcd.text(all.get(0)));
    if (!now.map(Generation::id).equals(Optional.of(generation.id()))) {
      throw new GlobalRefException("project " + disk.project() + " was removed meanwhile", null);
    }
    Optional<KeyValue> entry = Etcd.first(all.get(1));
    Optional<String> holder = Etcd.text(all.get(2));
    if (entry.isEmpty()) {
      return new Seen(now, Optional.empty(), 0, holder);
    }
    Optional<Effective> effective = refs.stages().look(entry.get(), refs.deadline());
    if (effective.isEmpty()) {
      Stages.awaitEnd(ref, deadline);
      return see(ref, generation, deadline);
    }
    Optional<String> batch = effective.get().open().map(open -> "a batch of node " + open.node());
    return new Seen(now, effective.get().value(), entry.get().getModRevision(), holder.or(() -> batch));
  }

  public static boolean agree(Optional<String> disk, Optional<String> etcd) {
    return disk.equals(Values.live(etcd));
  }

  private static String readable(String value) {
    return Values.isDeleted(value) ? "deleted" : value;
  }
}
