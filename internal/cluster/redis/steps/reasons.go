package steps

// ReasonAnnounce is the reason of Announce.
const ReasonAnnounce = "AnnouncingServers"

// ReasonWithdraw is the reason of Withdraw.
const ReasonWithdraw = "WithdrawingServices"

// ReasonCountLoad is the reason of CountLoad.
const ReasonCountLoad = "CountingLoad"

// ReasonMoveSlots is the reason of the steps that move slots, and of waiting for servers that do.
const ReasonMoveSlots = "MovingSlots"

// ReasonCloseSlots is the reason of CloseSlots.
const ReasonCloseSlots = "ClosingSlots"

// ReasonDropShard is the reason of DropShard.
const ReasonDropShard = "DroppingShard"

// ReasonResize is the reason of ResizePod, and of waiting for Kubernetes to resize.
const ReasonResize = "ResizingPods"
