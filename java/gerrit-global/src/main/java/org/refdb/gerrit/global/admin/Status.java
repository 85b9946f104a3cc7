package org.refdb.gerrit.global.admin;

import io.etcd.jetcd.Client;
import io.etcd.jetcd.maintenance.AlarmMember;
import io.etcd.jetcd.maintenance.StatusResponse;
import java.util.ArrayList;
import java.util.List;
import org.refdb.gerrit.global.etcd.Etcd;
import org.refdb.gerrit.global.etcd.EtcdMetrics;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.transaction.GlobalRefs;
import org.refdb.gerrit.global.watch.LaggingRefs;
import org.refdb.gerrit.global.watch.WatchService;
import org.refdb.gerrit.refs.GlobalCounts;
import org.refdb.gerrit.refs.GlobalDecision;

/**
 * What etcd and this node say of themselves.
 *
 * @param node its name in etcd
 * @param alarms of etcd: {@code NOSPACE} refuses every update
 * @param unresolved updates of this node whose outcome is not known yet
 * @param locks that this node holds or waits for
 * @param behind the refs of which its disk has not etcd's value yet
 */
public record Status(String node, List<Member> members, List<String> alarms, long unresolved, int locks, LaggingRefs.Report behind) {
  /**
   * One member of etcd.
   *
   * @param error why it cannot be asked; null if it can
   * @param leads whether it is the leader
   * @param revision of its data: one that is smaller than another's is behind
   * @param bytes of its database, which the quota bounds
   * @param inUse those of them that are in use; the rest is what {@code etcdctl defrag} frees
   * @param quota null where it is not told
   */
  public record Member(
      String endpoint, String error, String version, boolean leads, boolean hasLeader, long revision, long raftBehind, long bytes,
      long inUse, Long quota) {
    int fragmentedPercent() {
      return bytes == 0 ? 0 : (int) ((bytes - inUse) * 100 / bytes);
    }

    public String text() {
      if (error != null) {
        return endpoint + ": NOT REACHED: " + error;
      }
      return "%s: etcd %s, %s, revision %d, %d entries behind its log, database %d bytes of %s, %d in use (%d %% to be defragmented)"
          .formatted(
              endpoint, version, leads ? "leader" : hasLeader ? "follower" : "NO LEADER", revision, raftBehind, bytes,
              quota == null ? "an unknown quota" : quota + " (" + bytes * 100 / quota + " %)", inUse, fragmentedPercent());
    }
  }

  /** Asks each member by itself, and in the end all for alarms. */
  public static Status ask(GlobalRefs refs, WatchService heard) {
    return ask(refs, heard.behind(), heard.nativeMode().map(GlobalDecision::counts).orElse(GlobalCounts.NONE).unresolved());
  }

  public static Status ask(GlobalRefs refs, LaggingRefs.Report behind, long unresolvedInNativeMode) {
    Etcd etcd = refs.etcd();
    List<Member> members = new ArrayList<>();
    for (String endpoint : etcd.settings().endpoints()) {
      members.add(member(refs, endpoint));
    }
    List<String> alarms;
    try {
      alarms =
          etcd.await(etcd.client().getMaintenanceClient().listAlarms(), refs.deadline()).getAlarms().stream()
              .map(Status::text)
              .toList();
    } catch (GlobalRefException e) {
      alarms = List.of("cannot be asked: " + e.getMessage());
    }
    long unresolved = refs.slots().unresolvedCount() + unresolvedInNativeMode;
    return new Status(refs.nodeName(), members, alarms, unresolved, refs.locks().count(), behind);
  }

  private static String text(AlarmMember alarm) {
    return alarm.getAlarmType() + " of member " + Long.toHexString(alarm.getMemberId());
  }

  private static Member member(GlobalRefs refs, String endpoint) {
    Etcd etcd = refs.etcd();
    // A client of its own for each: the other one would ask any member.
    try (Client client = etcd.clientOf(List.of(endpoint))) {
      StatusResponse told = etcd.await(client.getMaintenanceClient().statusMember(endpoint), refs.deadline());
      return new Member(
          endpoint, null, told.getVersion(), told.getLeader() == told.getHeader().getMemberId(), told.getLeader() != 0,
          told.getHeader().getRevision(), Math.max(0, told.getRaftIndex() - told.getRaftAppliedIndex()), told.getDbSize(),
          told.getDbSizeInUse(), new EtcdMetrics(etcd.settings()).quota(endpoint));
    } catch (GlobalRefException e) {
      return new Member(endpoint, e.getMessage(), null, false, false, 0, 0, 0, 0, null);
    }
  }

  public boolean isGood() {
    return alarms.isEmpty() && unresolved == 0 && members.stream().allMatch(member -> member.error() == null && member.hasLeader());
  }

  /** For people. */
  public List<String> text() {
    List<String> lines = new ArrayList<>();
    lines.add("node " + node + ": " + unresolved + " updates of unknown outcome, " + locks + " locks held or waited for");
    lines.add(
        behind.refs() == 0
            ? "no ref is known to be behind"
            : behind.refs() + (behind.more() ? " refs and more" : " refs") + " are behind on this disk; " + behind.oldest() + " for "
                + behind.millis() / 1000 + " s");
    members.forEach(member -> lines.add(member.text()));
    lines.add("alarms: " + (alarms.isEmpty() ? "none" : String.join(", ", alarms)));
    return lines;
  }
}
