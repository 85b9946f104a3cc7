package org.refdb.gerrit.global.disk;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.function.Consumer;
import org.refdb.gerrit.global.disk.Compare.Difference;
import org.refdb.gerrit.global.disk.Compare.Kind;
import org.refdb.gerrit.global.etcd.Generation;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.transaction.GlobalRefs;
import org.refdb.gerrit.global.transaction.GlobalRefs.Expected;
import org.refdb.gerrit.global.transaction.GlobalRefs.Found;
import org.refdb.gerrit.global.transaction.Values;

/**
 * Makes refs equal on this node's disk and in etcd, one after the other, each under its lock. The administrator says
 * which side is right.
 */
public final class Repair {
  /** The side that has the right values; the other side is changed to match it. */
  public enum To {
    /** The disk is set to etcd's value. */
    ETCD,
    /** etcd is set to the disk's value. */
    DISK;

    /** Parses the side from its lower-case name; empty for anything else. */
    public static Optional<To> of(String word) {
      return Arrays.stream(values()).filter(to -> to.name().toLowerCase(Locale.ROOT).equals(word)).findFirst();
    }
  }

  /**
   * Numbers of refs that were repaired (in a dry run: would be) or had come to agree, and of those that could not be
   * repaired.
   */
  public record Summary(long repaired, long failed) {}

  private final GlobalRefs refs;
  private final DiskRefs disk;
  private final Compare compare;

  public Repair(GlobalRefs refs, DiskRefs disk) {
    this.refs = refs;
    this.disk = disk;
    compare = new Compare(refs, disk);
  }

  /**
   * Repairs refs that differ.
   *
   * @param names names of the refs; empty for all that differ, up to {@code most}
   * @param isDry whether to report only what would be done
   */
  public Summary run(List<String> names, long most, To to, boolean isDry, Consumer<String> said)
      throws IOException, GlobalRefException {
    List<Difference> found = new ArrayList<>();
    Generation generation = compare.generation();
    if (names.isEmpty()) {
      compare.run(most, found::add);
    }
    for (String name : names) {
      if (!disk.isStored(name)) {
        throw new GlobalRefException(name + " is not among the refs that are stored in etcd", null);
      }
      compare.look(name, generation).ifPresent(found::add);
    }
    long repaired = 0;
    for (Difference one : found) {
      String outcome;
      try {
        outcome = isDry ? plan(one, to) : repair(one.ref(), to);
        repaired++;
      } catch (IOException | GlobalRefException e) {
        outcome = one.text() + ": NOT repaired: " + e.getMessage();
      }
      said.accept(outcome);
    }
    return new Summary(repaired, found.size() - repaired);
  }

  private String plan(Difference one, To to) throws GlobalRefException, IOException {
    if (one.kind() == Kind.UNDER_UPDATE) {
      throw new GlobalRefException("it is being updated", null);
    }
    if (to == To.ETCD) {
      requireObject(one.etcd());
    }
    return one.text() + ": would be set to " + (to == To.ETCD ? "etcd's value here" : "this disk's value in etcd");
  }

  private void requireObject(Optional<String> there) throws GlobalRefException, IOException {
    Optional<String> id = Values.live(there);
    if (id.isPresent() && !disk.hasObject(id.get())) {
      throw new GlobalRefException("etcd's object is not here: fetch it from another node first", null);
    }
  }

  @SuppressWarnings("try") // the lock is only held; nothing is called on it
  private String repair(String ref, To to) throws IOException, GlobalRefException {
    try (AutoCloseable lock = refs.lock(disk.project(), ref)) {
      // While the lock is held, Gerrit's global-refdb module, which takes it for each update, does not update the ref.
      // Native mode does not take it. Therefore etcd, the intents and the disk are read in this order, and the side that
      // is to be changed is compared again: etcd by its revision, the disk by `disk.set`.
      Found found = refs.read(disk.project(), ref);
      Optional<String> there = found.value();
      if (disk.intentOf(ref).isPresent()) {
        throw new GlobalRefException("an update of it is in progress or was not settled; repeat the command", null);
      }
      Optional<String> here = disk.value(ref);
      if (Compare.agree(here, there)) {
        return ref + ": is the same by now";
      }
      String text = new Difference(ref, Kind.OTHER, here, there, "").text();
      if (to == To.DISK) {
        String next = here.orElse(Values.DELETED.getFirst());
        Expected expected = new Expected.PutAt(found.revision());
        if (!refs.compareAndPut(disk.project(), ref, expected, next, false)) {
          throw new GlobalRefException("it has moved in etcd; repeat the command", null);
        }
        return text + ": etcd has this disk's value now";
      }
      requireObject(there);
      String next = there.orElse(Values.DELETED.getFirst());
      disk.set(ref, here, next);
      // The lease may have expired meanwhile, so that another node may have updated the ref.
      if (!refs.read(disk.project(), ref).value().orElse(Values.DELETED.getFirst()).equals(next)) {
        throw new GlobalRefException("it has moved in etcd meanwhile; compare again", null);
      }
      return text + ": the disk has etcd's value now";
    } catch (IOException | GlobalRefException e) {
      throw e;
    } catch (Exception e) {
      throw new GlobalRefException(e.getMessage(), e);
    }
  }
}
