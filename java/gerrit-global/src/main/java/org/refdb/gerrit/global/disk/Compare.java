package org.refdb.gerrit.global.disk;

import io.etcd.jetcd.KeyValue;
import io.etcd.jetcd.kv.GetResponse;
import java.io.IOException;
import java.util.List;
import java.util.Optional;
import java.util.function.Consumer;
import org.refdb.gerrit.global.etcd.Deadline;
import org.refdb.gerrit.global.etcd.Etcd;
import org.refdb.gerrit.global.etcd.Generation;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.etcd.Keys;
import org.refdb.gerrit.global.transaction.GlobalRefs;
import org.refdb.gerrit.global.transaction.Stages.Effective;
import org.refdb.gerrit.global.transaction.Values;

/**
 * Compares the refs on this node's disk with those in etcd, both ways, and stops nobody. A ref that differs is looked at
 * again, until both values are of one moment and nobody has its lock.
 */
public final class Compare {
  /** The differences that are reported unless the caller sets another limit. */
  public static final long DIFFERENCES_DEFAULT = 1000;

  /** How a ref differs. */
  public enum Kind {
    /** etcd has no value, or that of a deleted ref. */
    ONLY_ON_DISK,
    /** The disk has no such ref. */
    ONLY_IN_ETCD,
    /** Both have one, not the same. */
    OTHER,
    /** A node had its lock, or it moved, whenever it was looked at. */
    UNDER_UPDATE
  }

  /**
   * A ref that differs.
   *
   * @param note what one should know besides
   */
  public record Difference(String ref, Kind kind, Optional<String> disk, Optional<String> etcd, String note) {
    public String text() {
      return ref + ": here " + disk.orElse("nothing") + ", in etcd " + etcd.map(Compare::readable).orElse("nothing") + note;
    }
  }

  /**
   * What a comparison found.
   *
   * @param refs that were looked at
   * @param neverSeen refs on the disk that etcd has not seen yet; their first update takes them up
   * @param imported whether absent in etcd means that the ref does not exist
   * @param complete whether it came to the end
   */
  public record Summary(long refs, long neverSeen, long different, boolean imported, boolean complete) {
    public boolean isClean() {
      return different == 0 && complete;
    }
  }

  /** What etcd has of a ref at one moment. */
  private record Seen(Optional<Generation> generation, Optional<String> value, long revision, Optional<String> holder) {}

  private final GlobalRefs refs;
  private final DiskRefs disk;

  public Compare(GlobalRefs refs, DiskRefs disk) {
    this.refs = refs;
    this.disk = disk;
  }

  /** Tells of each ref that differs, and stops after some. */
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
      if (different == most) {
        return new Summary(looked, neverSeen, different, generation.imported(), false);
      }
      Optional<Difference> found = look(one.ref(), generation);
      if (found.isPresent()) {
        different++;
        told.accept(found.get());
      }
    }
    return new Summary(looked, neverSeen, different, generation.imported(), true);
  }

  /** The project's generation. One that etcd never saw has none yet. */
  public Generation generation() throws GlobalRefException {
    return refs.projects().look(disk.project(), refs.deadline()).orElseThrow(
        () -> new GlobalRefException("etcd has nothing of project " + disk.project() + ": it was neither updated nor imported", null));
  }

  /** Whether a ref still differs, once its values are of one moment. */
  public Optional<Difference> look(String ref, Generation generation) throws IOException, GlobalRefException {
    Deadline deadline = refs.deadline();
    while (true) {
      Seen before = see(ref, generation);
      Optional<String> here = disk.value(ref);
      if (agree(here, before.value()) || before.value().isEmpty() && !before.generation().get().imported()) {
        return Optional.empty();
      }
      boolean isStill = before.holder().isEmpty() && before.equals(see(ref, generation));
      if (isStill) {
        return Optional.of(difference(ref, here, before.value()));
      }
      if (!deadline.pause()) {
        String note = before.holder().map(holder -> "; locked by " + holder).orElse("; it moves too often");
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

  private Seen see(String ref, Generation generation) throws GlobalRefException {
    Keys keys = refs.keys();
    List<GetResponse> all =
        refs.etcd()
            .commitAgain(
                List.of(),
                List.of(
                    Etcd.get(keys.project(disk.project())), Etcd.get(keys.value(generation, ref)), Etcd.get(keys.lock(generation, ref))),
                List.of(),
                refs.deadline())
            .getGetResponses();
    Optional<Generation> now = refs.projects().remember(disk.project(), Etcd.text(all.get(0)));
    if (!now.map(Generation::id).equals(Optional.of(generation.id()))) {
      throw new GlobalRefException("project " + disk.project() + " was removed or renamed meanwhile", null);
    }
    Optional<KeyValue> entry = Etcd.first(all.get(1));
    Optional<String> holder = Etcd.text(all.get(2));
    if (entry.isEmpty()) {
      return new Seen(now, Optional.empty(), 0, holder);
    }
    Optional<Effective> effective = refs.stages().look(entry.get(), refs.deadline());
    if (effective.isEmpty()) {
      return see(ref, generation);
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
